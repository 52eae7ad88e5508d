import { spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { canInstall, install } from '../services/apt.ts'
import { fetchedHome, fetchedVersion, findJava, javaPackages } from '../services/kafka-broker.ts'
import { NotToBeHad, type Obtained } from './obtained.ts'

const list = new URL(`./kafka-${fetchedVersion}.txt`, import.meta.url)
const repository = process.env.HAPAX_TEST_MAVEN ?? 'https://repo.maven.apache.org/maven2'
const atOnce = 8
const fileDeadlineMs = 60_000

/** Apache Kafka from Maven Central, kept in the cache, with a JVM that is here or can be installed. */
export async function fromMaven(): Promise<Obtained> {
  demandJava()
  const home = fetchedHome()
  if (!existsSync(home)) await fetchInto(home)
  return { how: `from Maven Central, with ${javaVersion()}`, env: { KAFKA_HOME: home } }
}

function demandJava(): void {
  if (findJava() !== undefined) return
  const complaint = canInstall() ? install(javaPackages) : `run apt-get install ${javaPackages.join(' ')}`
  if (findJava() === undefined) throw new NotToBeHad(`there is no JVM of version 17 or later: ${complaint}`)
}

function javaVersion(): string {
  const { stderr } = spawnSync(findJava() ?? 'java', ['-version'], { encoding: 'utf8' })
  return `Java ${/version "(\d+)/.exec(stderr)?.[1]}`
}

/** Several processes may do this at the same time: the first to finish wins. */
async function fetchInto(home: string): Promise<void> {
  const making = `${home}.${process.pid}`
  mkdirSync(join(making, 'libs'), { recursive: true })
  const jars = readFileSync(list, 'utf8')
    .split('\n')
    .filter((line) => /^[0-9a-f]{64} /.test(line))
    .map((line) => line.split(' ') as [hash: string, path: string])
  try {
    const next = jars.values()
    await Promise.all(Array.from({ length: atOnce }, () => fetchAll(next, join(making, 'libs'))))
    moveInto(making, home)
  } finally {
    rmSync(making, { recursive: true, force: true })
  }
}

/** Moves a folder to its place, unless another process was first: also between a look and the move. */
export function moveInto(making: string, home: string): void {
  try {
    renameSync(making, home)
  } catch (error) {
    if (!existsSync(home)) throw error
  }
}

async function fetchAll(jars: Iterable<[hash: string, path: string]>, folder: string): Promise<void> {
  for (const [hash, path] of jars) {
    const bytes = await download(`${repository}/${path}`)
    if (createHash('sha256').update(bytes).digest('hex') !== hash) {
      throw new NotToBeHad(`${repository}/${path} is not the file that it was`)
    }
    writeFileSync(join(folder, basename(path)), bytes)
  }
}

async function download(url: string): Promise<Buffer> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(fileDeadlineMs) })
    if (!response.ok) throw new Error(`status ${response.status}`)
    return Buffer.from(await response.arrayBuffer())
  } catch (error) {
    throw new NotToBeHad(`${url} could not be fetched: ${(error as Error).message}`)
  }
}
