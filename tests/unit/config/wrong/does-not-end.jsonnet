// Would count for ever.
local count(n) = if n < 0 then n else count(n + 1) tailstrict;
{ timeout: count(0) }
