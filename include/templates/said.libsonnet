// An object without the fields that say nothing. Only its own: `std.prune` goes through everything below, several times.
function(object) {
  [name]: object[name]
  for name in std.objectFields(object)
  if !std.member([null, {}, []], object[name])
}
