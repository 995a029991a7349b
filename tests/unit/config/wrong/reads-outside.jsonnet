{
  framework: 'tf',
  command: [importstr '/etc/passwd'],
}
