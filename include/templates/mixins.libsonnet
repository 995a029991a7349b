// Kinds of tests, used like `base.BaseTest + base.Functional { ... }`.
{
  // Checks every day that the model runs, for at most an hour.
  Functional:: {
    mode: 'func',
    timeout: '1h',
    schedule: '0 8 * * *',
  },

  // Checks on Sundays and Wednesdays that the model converges.
  Convergence:: {
    mode: 'conv',
    timeout: '10h',
    schedule: '0 6 * * 0,3',
  },

  // Runs only when it is triggered by hand.
  Suspended:: {
    schedule: null,
  },
}
