"""How a release is made: versions, distributions, bills of materials, licences, the site. `make dist`, `make site`."""
