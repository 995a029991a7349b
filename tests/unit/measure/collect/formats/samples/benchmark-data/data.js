window.BENCHMARK_DATA = {
 "lastUpdate": 1790000000000,
 "repoUrl": "https://example.com/r",
 "entries": {
  "Benchmark": [
   {
    "commit": {
     "id": "a1"
    },
    "date": 1790000000000,
    "tool": "customSmallerIsBetter",
    "benches": [
     {
      "name": "load",
      "value": 12.5,
      "unit": "ms"
     }
    ]
   },
   {
    "commit": {
     "id": "b2"
    },
    "date": 1790000000000,
    "tool": "customSmallerIsBetter",
    "benches": [
     {
      "name": "load",
      "value": 11.5,
      "unit": "ms"
     }
    ]
   }
  ]
 }
}