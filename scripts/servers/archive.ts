import { execFile, spawnSync } from 'node:child_process'
import { existsSync, globSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { arch, platform } from 'node:process'
import { promisify } from 'node:util'
import { canInstall, install } from '../services/apt.ts'
import { cached } from './cache.ts'
import { NotToBeHad, type Obtained } from './obtained.ts'
import { pointAtOwnLibraries } from './own-libraries.ts'

const run = promisify(execFile)

/** Packages of a suite of Debian or Ubuntu, and the programs among them that start the server. */
export interface Packages {
  readonly suite: keyof typeof suites
  readonly packages: readonly string[]
  /** Paths of programs inside of the packages. */
  readonly programs: readonly string[]
  /** Files of the packages that have to be changed because they lie elsewhere: what to replace by the folder. */
  readonly rooted?: Readonly<Record<string, string>>
}

interface Suite {
  readonly distribution: 'Debian' | 'Ubuntu'
  /** Suites that this one builds on, and itself. */
  readonly lines: readonly string[]
}

const suites = {
  bookworm: { distribution: 'Debian', lines: ['bookworm main'] },
  'bookworm-backports': { distribution: 'Debian', lines: ['bookworm main', 'bookworm-backports main'] },
  trixie: { distribution: 'Debian', lines: ['trixie main'] },
  sid: { distribution: 'Debian', lines: ['sid main'] },
  experimental: { distribution: 'Debian', lines: ['sid main', 'experimental main'] },
  jammy: { distribution: 'Ubuntu', lines: ['jammy main universe', 'jammy-updates main universe'] },
  noble: { distribution: 'Ubuntu', lines: ['noble main universe', 'noble-updates main universe'] },
  plucky: { distribution: 'Ubuntu', lines: ['plucky main universe', 'plucky-updates main universe'] },
  resolute: { distribution: 'Ubuntu', lines: ['resolute main universe', 'resolute-updates main universe'] },
} as const satisfies Record<string, Suite>

/** A server from packages that are unpacked beside the system, with all that they depend on: nothing is installed. */
export async function fromArchive(name: string, packages: Packages): Promise<Obtained> {
  const programs = join(cached('programs'), name)
  // The list of programs may have grown since they were linked.
  if (!packages.programs.every((path) => existsSync(join(programs, basename(path))))) {
    demandTools()
    const tree = await unpacked(name, packages)
    await pointAtOwnLibraries(tree)
    for (const [files, place] of Object.entries(packages.rooted ?? {})) reroot(tree, files, place)
    linkPrograms(tree, packages.programs, programs)
  }
  const { distribution } = suites[packages.suite]
  return { how: `unpacked from ${distribution} ${packages.suite}`, env: { PATH: programs } }
}

function demandTools(): void {
  if (`${platform}-${arch}` !== 'linux-x64') throw new NotToBeHad(`the packages are not for ${platform}-${arch}`)
  for (const tool of ['apt-get', 'dpkg-deb', 'tar']) {
    if (!has(tool)) throw new NotToBeHad(`${tool} is not here to unpack packages of Debian or Ubuntu`)
  }
  if (has('patchelf')) return
  const complaint = canInstall() ? install(['patchelf']) : 'run apt-get install patchelf'
  if (complaint !== undefined) throw new NotToBeHad(`patchelf is not here: ${complaint}`)
}

function has(program: string): boolean {
  return spawnSync(program, ['--version']).error === undefined
}

/** The folder of the unpacked packages. */
async function unpacked(name: string, { suite, packages }: Pick<Packages, 'suite' | 'packages'>): Promise<string> {
  const tree = join(cached('trees'), name)
  if (existsSync(tree)) return tree
  const config = await aptOf(suite)
  const archives = cached('debs', name)
  const making = `${tree}.making`
  rmSync(making, { recursive: true, force: true })
  for (const each of ['bin', 'sbin', 'lib', 'lib64']) {
    mkdirSync(join(making, 'usr', each), { recursive: true })
    symlinkSync(join('usr', each), join(making, each))
  }
  mkdirSync(join(archives, 'partial'), { recursive: true })
  const options = ['--yes', '--download-only', '--no-install-recommends', `--target-release=${suite}`]
  await apt(config, ['install', '-o', `Dir::Cache::archives=${archives}`, ...options, ...packages])
  // A package may have /lib/…, which is a link to /usr/lib/… here as on every merged system.
  const each = 'for deb; do dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$0" --keep-directory-symlink -f -; done'
  await run('sh', ['-ec', each, making, ...globSync(join(archives, '*.deb'))], { maxBuffer: 1 << 26 })
  rmSync(archives, { recursive: true, force: true })
  renameSync(making, tree)
  return tree
}

/** A private state of APT for one suite, with today's lists; returns its configuration. */
async function aptOf(suite: keyof typeof suites): Promise<string> {
  const state = cached('apt', suite)
  for (const each of ['lists/partial', 'cache/archives/partial', 'none']) cached('apt', suite, each)
  const { distribution, lines } = suites[suite]
  const { mirror, keyring } = await sourceOf(distribution)
  writeFileSync(join(state, 'status'), '')
  writeFileSync(
    join(state, 'sources.list'),
    lines.map((line) => `deb [arch=amd64 signed-by=${keyring}] ${mirror} ${line}\n`).join(''),
  )
  const config = join(state, 'apt.conf')
  writeFileSync(config, configuration(state))
  await apt(config, ['update'])
  return config
}

async function sourceOf(distribution: Suite['distribution']): Promise<{ mirror: string; keyring: string }> {
  const debian = '/usr/share/keyrings/debian-archive-keyring.gpg'
  if (!existsSync(debian)) throw new NotToBeHad(`${debian} is not here to verify packages with`)
  if (distribution === 'Debian') return { mirror: 'http://deb.debian.org/debian', keyring: debian }
  const tree = await unpacked('ubuntu-keyring', { suite: 'trixie', packages: ['ubuntu-archive-keyring'] })
  const keyring = join(tree, 'usr', 'share', 'keyrings', 'ubuntu-archive-keyring.gpg')
  return { mirror: 'http://archive.ubuntu.com/ubuntu', keyring }
}

function configuration(state: string): string {
  const settings = {
    'Dir::State': state,
    'Dir::State::lists': join(state, 'lists'),
    'Dir::State::status': join(state, 'status'),
    'Dir::Cache': join(state, 'cache'),
    'Dir::Etc::sourcelist': join(state, 'sources.list'),
    'Dir::Etc::sourceparts': '-',
    'Dir::Etc::preferencesparts': join(state, 'none'),
    'APT::Architecture': 'amd64',
    'APT::Architectures': 'amd64',
    'APT::Sandbox::User': 'root',
    'APT::Update::Error-Mode': 'any',
    // The lists of a suite that is no longer changed are valid for ever.
    'Acquire::Check-Valid-Until': 'false',
    'Acquire::Languages': 'none',
    'Acquire::Retries': '3',
    'Debug::NoLocking': 'true',
  }
  return Object.entries(settings)
    .map(([name, value]) => `${name} "${value}";\n`)
    .join('')
}

async function apt(config: string, args: readonly string[]): Promise<void> {
  try {
    await run('apt-get', ['--quiet=2', ...args], {
      env: { ...process.env, APT_CONFIG: config, LC_ALL: 'C' },
      maxBuffer: 1 << 26,
    })
  } catch (error) {
    const said = String((error as { stderr?: unknown }).stderr ?? error)
    throw new NotToBeHad(`apt-get ${args[0]} failed: ${said.trim().split('\n')[0]}`)
  }
}

function reroot(tree: string, files: string, place: string): void {
  const here = join(tree, place)
  for (const path of globSync(join(tree, files))) {
    const text = readFileSync(path, 'utf8')
    if (!text.includes(here)) writeFileSync(path, text.replaceAll(place, here))
  }
}

/** Links to the programs alone: the other programs of the packages are not for this system. */
function linkPrograms(tree: string, paths: readonly string[], folder: string): void {
  const making = `${folder}.making`
  rmSync(making, { recursive: true, force: true })
  mkdirSync(making)
  for (const path of paths) {
    const program = join(tree, path)
    if (!existsSync(program)) throw new NotToBeHad(`the packages have no /${path}`)
    symlinkSync(program, join(making, basename(path)))
  }
  rmSync(folder, { recursive: true, force: true })
  renameSync(making, folder)
}
