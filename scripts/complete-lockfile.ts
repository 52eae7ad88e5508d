// Adds to package-lock.json the packages of other platforms that npm left out, as it does when the registry at hand lacks
// them; `npm ci` refuses such a lockfile everywhere. Run it after a change of dependencies: `node scripts/complete-lockfile.ts`.
import { readFileSync, writeFileSync } from 'node:fs'

interface Lockfile {
  packages: Record<string, LockedPackage>
}

interface LockedPackage {
  version?: string
  optionalDependencies?: Record<string, string>
  [field: string]: unknown
}

const path = new URL('../package-lock.json', import.meta.url)

if (import.meta.main) {
  const lockfile: Lockfile = JSON.parse(readFileSync(path, 'utf8'))
  for (const { name, version } of leftOut(lockfile)) {
    lockfile.packages[`node_modules/${name}`] = { version, dev: true, optional: true, ...platformOf(name) }
    console.log(`added ${name}@${version}`)
  }
  const entries = Object.entries(lockfile.packages).sort(([a], [b]) => a.localeCompare(b, 'en'))
  writeFileSync(path, `${JSON.stringify({ ...lockfile, packages: Object.fromEntries(entries) }, null, 2)}\n`)
}

/** The optional packages of exactly known version that the lockfile does not hold. */
export function leftOut({ packages }: Lockfile): { name: string; version: string }[] {
  return Object.entries(packages).flatMap(([parent, { optionalDependencies = {} }]) =>
    Object.entries(optionalDependencies)
      .filter(([name]) => !(`node_modules/${name}` in packages) && !(`${parent}/node_modules/${name}` in packages))
      .map(([name, version]) => ({ name, version })),
  )
}

/** Reads a package name like `@scope/binding-linux-x64-musl`: npm fetches only what fits the machine. */
function platformOf(name: string): { os?: string[]; cpu?: string[]; libc?: string[] } {
  const os = /android|darwin|freebsd|linux|openharmony|win32/.exec(name)?.[0]
  const cpu = /wasm32|arm64|arm|ia32|ppc64|riscv64|s390x|x64/.exec(name)?.[0]
  const libc = os !== 'linux' ? undefined : name.includes('musl') ? 'musl' : 'glibc'
  return { ...(os && { os: [os] }), ...(cpu && { cpu: [cpu] }), ...(libc && { libc: [libc] }) }
}
