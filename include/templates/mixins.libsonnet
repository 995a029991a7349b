// Kinds of tests: `base.BaseTest + base.Functional { ... }`.
{
  // Does it still run? Every day, an hour at most.
  Functional:: {
    mode: 'func',
    timeout: '1h',
    schedule: '0 8 * * *',
  },

  // Does it still learn? On Sundays and Wednesdays.
  Convergence:: {
    mode: 'conv',
    timeout: '10h',
    schedule: '0 6 * * 0,3',
  },

  // Only when it is started by hand.
  Suspended:: {
    schedule: null,
  },
}
