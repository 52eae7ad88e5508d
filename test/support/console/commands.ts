import { execFileSync } from 'node:child_process'
import { cli } from '../cli.ts'

/**
 * What the command line says against a command that a page shows, once a real shell has split it: undefined if it would run. It is
 * given a database that does not exist, which it only notices when it has understood everything else.
 */
export async function objection(commands: string): Promise<string | undefined> {
  const found = await Promise.all(commands.split(' &&\n').map(objectionTo))
  return found.find((each) => each !== undefined)
}

async function objectionTo(command: string): Promise<string | undefined> {
  const print = `printf '%s\\0' ${command}`
  const [npx, hapax, ...argv] = execFileSync('bash', ['-c', print], { encoding: 'utf8' }).split('\0').slice(0, -1)
  if (npx !== 'npx' || hapax !== 'hapax') return `expected npx hapax …, got ${command}`
  // These two take no database.
  if (argv[0] === 'demo' || argv[0] === 'work') {
    return (await cli([...argv, '--help'])).exitCode === 0 ? undefined : `there is no ${argv[0]}`
  }
  const words = argv.includes('--') ? argv.toSpliced(argv.indexOf('--'), 0, ...NOWHERE) : [...argv, ...NOWHERE]
  const { stderr } = await cli(words)
  return stderr.includes('there is no database') ? undefined : stderr
}

const NOWHERE = ['--store', 'sqlite:/nowhere/at/all.db']
