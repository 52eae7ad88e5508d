import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { findJava, kafkaBroker } from '../../scripts/services/kafka-broker.ts'
import { isMock, kafkaServer } from './kafka-server.ts'
import { noPrivateServer, privateServer } from './private-server.ts'
import { requireServer } from './servers.ts'

/** The broker that the environment names, or one of the tests' own. */
export interface RealKafka extends AsyncDisposable {
  readonly url: string
}

/** Whether the environment names a real broker. */
const isGiven = kafkaServer !== undefined && !isMock

/** Why there is none here, or undefined. */
export function noRealKafka(): string | undefined {
  return isGiven ? undefined : noPrivateServer('kafka-broker')
}

export async function realKafka(): Promise<RealKafka> {
  if (isGiven) return { url: requireServer('kafka'), [Symbol.asyncDispose]: async () => {} }
  const server = await privateServer('kafka-broker')
  return { url: server.url, [Symbol.asyncDispose]: () => server[Symbol.asyncDispose]() }
}

/** Why Kafka's own programs cannot be run here, or undefined. */
export function noConsole(): string | undefined {
  return kafkaBroker.find() === undefined ? `${kafkaBroker.title} is not installed here` : undefined
}

/** Runs one of Kafka's own programs, by its class; gives what it writes. */
export async function runConsole(main: string, args: readonly string[], input = ''): Promise<string> {
  const libs = join(kafkaBroker.find()?.from ?? '', 'libs', '*')
  const quiet = ['-XX:TieredStopAtLevel=1', '-Dorg.slf4j.simpleLogger.defaultLogLevel=error']
  return runProgram(findJava() ?? 'java', [...quiet, '-cp', libs, `org.apache.kafka.tools.${main}`, ...args], input)
}

/** Runs a program with an input; gives its output. */
export async function runProgram(program: string, args: readonly string[], input = ''): Promise<string> {
  const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.end(input)
  const [said, complaint, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'exit')])
  if (code !== 0) throw new Error(`${program} ended with ${code}: ${complaint}`)
  return said
}
