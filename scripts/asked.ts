/** Of these names, those that the arguments ask for, all of them by default; ends the process after `--help` and after a name that is none. */
export function askedNames<Name extends string>(names: readonly Name[], help: string): readonly Name[] {
  const args = process.argv.slice(2)
  if (args.includes('--help')) {
    console.log(help)
    process.exit()
  }
  const unknown = args.find((arg) => !names.some((name) => name === arg))
  if (unknown !== undefined) {
    console.error(`expected some of ${names.join(', ')}, got '${unknown}'`)
    process.exit(2)
  }
  return names.filter((name) => args.length === 0 || args.includes(name))
}
