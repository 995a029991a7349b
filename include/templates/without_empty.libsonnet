// The object without its empty fields: null, {} and []. Nested objects stay as they are, unlike with `std.prune`.
function(object) {
  [name]: object[name]
  for name in std.objectFields(object)
  if !std.member([null, {}, []], object[name])
}
