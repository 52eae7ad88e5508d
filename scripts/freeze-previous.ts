// Bundles the library of an earlier commit for the test that runs two versions side by side. Before a new migration is written:
// `node scripts/freeze-previous.ts <commit> <its last schema version>`, then point test/faults/side-by-side-child.ts at the file.
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const root = join(import.meta.dirname, '..')
const [commit, version] = process.argv.slice(2)
if (commit === undefined || !/^\d+$/.test(version ?? '')) {
  console.error('usage: node scripts/freeze-previous.ts <commit> <schema version>')
  process.exit(2)
}

const full = git('rev-parse', '--verify', `${commit}^{commit}`).toString().trim()
const file = join(root, 'test', 'previous', `hapax-schema-${version}.js`)
const copy = mkdtempSync(join(tmpdir(), 'hapax-previous-'))
try {
  execFileSync('tar', ['-x', '-C', copy], { input: git('archive', full, 'src', 'tsconfig.json') })
  writeFileSync(join(copy, 'entry.ts'), entry())
  mkdirSync(join(root, 'test', 'previous'), { recursive: true })
  bundle(copy, file)
} finally {
  rmSync(copy, { recursive: true, force: true })
}

function git(...args: string[]): Buffer {
  return execFileSync('git', args, { cwd: root, maxBuffer: 2 ** 28 })
}

function entry(): string {
  return ['postgres', 'mysql', 'sqlite']
    .map((store) => `export { ${store} } from './src/stores/${store}/index.ts'`)
    .concat(`export { createHapax, defineMessage, Permanent, silentLogger } from './src/index.ts'`)
    .join('\n')
}

function bundle(cwd: string, output: string): void {
  const externals = ['pg', 'mysql2/promise'].flatMap((name) => ['--external', name])
  const format = ['--format', 'esm', '--platform', 'node', '--no-codeSplitting']
  // Rolldown comes with Vitest.
  const rolldown = join(root, 'node_modules', '.bin', 'rolldown')
  execFileSync(rolldown, ['entry.ts', '--file', output, ...format, ...externals], { cwd, stdio: 'inherit' })
  writeFileSync(output, header() + readFileSync(output, 'utf8'))
}

function header(): string {
  const short = full.slice(0, 7)
  return (
    `// hapax as of ${short}, with schema ${version}: what may still be deployed when the next migration runs.\n` +
    `// Made by \`node scripts/freeze-previous.ts ${short} ${version}\`; never edited.\n`
  )
}
