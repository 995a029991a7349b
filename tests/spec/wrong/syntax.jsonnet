{
  framework: 'tf'
  model: 'mnist',
}
