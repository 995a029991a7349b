// The former name of this function, for templates that import it.
import 'without_empty.libsonnet'
