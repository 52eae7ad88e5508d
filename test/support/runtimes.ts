import { chmodSync, existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { installed, newestNode, nodeProgram, oldestNode } from './registry.ts'

/** The versions of Node.js and the other runtimes that hapax is tried on, by the names that people ask for them by. */
const programs = {
  'node-22.18': () => nodeProgram(oldestNode),
  'node-22': () => nodeProgram('22.23.3'),
  'node-24': () => nodeProgram('24.21.0'),
  'node-26': () => nodeProgram(newestNode),
  bun: async () => join(await folderOf('@oven/bun-linux-x64', '1.4.4'), 'bin', 'bun'),
  deno: async () => asNode(join(await folderOf('@deno/linux-x64-glibc', '2.9.6'), 'deno')),
} as const satisfies Record<string, () => Promise<string>>

export type RuntimeName = keyof typeof programs

export const runtimeNames = Object.keys(programs) as RuntimeName[]

/** The program of a runtime, from npm. It takes what Node.js takes: options, the path of a program, its arguments. */
export function runtimeProgram(name: RuntimeName): Promise<string> {
  return programs[name]()
}

/** The runtime that `HAPAX_TEST_ON` names, instead of the versions of Node.js that are usual. */
export function askedRuntime(): RuntimeName | undefined {
  const asked = process.env['HAPAX_TEST_ON']
  if (!asked) return undefined
  const name = runtimeNames.find((each) => each === asked)
  if (name === undefined) {
    throw new Error(`expected HAPAX_TEST_ON to be one of ${runtimeNames.join(', ')}, got '${asked}'`)
  }
  return name
}

async function folderOf(name: string, version: string): Promise<string> {
  return join(await installed({ [name]: version }), 'node_modules', name)
}

/** Deno wants a command, asks for permissions, and has no such option. */
function asNode(deno: string): string {
  const script = `${deno}-as-node`
  if (!existsSync(script)) {
    const lines = [
      '[ "$1" = --version ] && exec DENO "$1"',
      '[ "$1" = --no-warnings ] && shift',
      'exec DENO run --allow-all "$@"',
    ]
    writeFileSync(script, `#!/bin/sh\n${lines.join('\n').replaceAll('DENO', deno)}\n`)
    chmodSync(script, 0o755)
  }
  return script
}
