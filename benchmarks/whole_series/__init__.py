"""Level changes of whole series: marks of people, rules that search, scores, and fitted weights."""
