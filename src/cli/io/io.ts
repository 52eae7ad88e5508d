import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline/promises'
import { styleText } from 'node:util'
import { safeJson } from '../../base/index.ts'

/** Where a command writes. */
interface Output {
  /** `done` is called when the text has left this process, or with the error that prevents it. */
  write(text: string, done?: (error?: Error | null) => void): unknown
  readonly isTTY?: boolean | undefined
  readonly columns?: number | undefined
}

/** Everything a command uses of its process. Tests pass their own. */
export interface Io {
  readonly out: Output
  readonly err: Output
  readonly env: Readonly<Record<string, string | undefined>>
  readonly cwd: string
  readonly color: boolean
  /** Asks a yes-or-no question; undefined without a terminal. */
  readonly confirm: ((question: string) => Promise<boolean>) | undefined
  /** Asks for a line of text; undefined without a terminal. Resolves with undefined if the prompt is closed. */
  readonly ask: ((question: string) => Promise<string | undefined>) | undefined
  /** Opens a text in an editor and resolves with the edited text; undefined without a terminal. */
  readonly edit: ((text: string) => Promise<string>) | undefined
  /** What is piped into the command; undefined on a terminal. */
  readonly input: AsyncIterable<Uint8Array | string> | undefined
  /** Calls back when the process is asked to end. Until the returned function is called, signals do not end the process. */
  onSignal(listener: (signal: EndSignal) => void): () => void
}

/** The signals that ask a process to end. */
export type EndSignal = 'SIGINT' | 'SIGTERM'

/** The io of this process. */
export function processIo(): Io {
  const { stdin, stdout, stderr, env } = process
  return {
    out: stdout,
    err: stderr,
    env,
    cwd: process.cwd(),
    // styleText respects NO_COLOR, FORCE_COLOR and terminals without colours.
    color: styleText('red', 'x', { stream: stdout }) !== 'x',
    confirm: stdin.isTTY && stderr.isTTY ? confirm : undefined,
    ask: stdin.isTTY && stderr.isTTY ? ask : undefined,
    edit: stdin.isTTY && stdout.isTTY ? (text) => inEditor(text, env['VISUAL'] || env['EDITOR'] || 'vi') : undefined,
    input: stdin.isTTY ? undefined : stdin,
    onSignal,
  }
}

function onSignal(listener: (signal: EndSignal) => void): () => void {
  const signals: readonly EndSignal[] = ['SIGINT', 'SIGTERM']
  for (const signal of signals) process.on(signal, listener)
  return () => {
    for (const signal of signals) process.off(signal, listener)
  }
}

async function confirm(question: string): Promise<boolean> {
  return /^y(es)?$/i.test((await ask(`${question} [y/N]`)) ?? '')
}

async function ask(question: string): Promise<string | undefined> {
  // Questions go to stderr: stdout belongs to the data.
  const prompt = createInterface({ input: process.stdin, output: process.stderr })
  try {
    // Ctrl-C and Ctrl-D close the prompt. Newer versions of Node then reject the question, older ones never settle it.
    const closed = once(prompt, 'close').then(() => '\n')
    const asked = prompt.question(`${question} `).catch(() => '\n')
    const answer = await Promise.race([asked, closed])
    if (answer !== '\n') return answer.trim()
    process.stderr.write(answer)
    return undefined
  } finally {
    prompt.close()
  }
}

async function inEditor(text: string, editor: string): Promise<string> {
  const directory = mkdtempSync(join(tmpdir(), 'hapax-edit-'))
  try {
    const file = join(directory, 'data.json')
    // Payloads may be confidential: only this user may read the file.
    writeFileSync(file, text, { mode: 0o600 })
    // Through a shell, as git does it: the variable may contain arguments.
    const child = spawn('/bin/sh', ['-c', `${editor} "$1"`, 'sh', file], { stdio: 'inherit' })
    const [code]: readonly unknown[] = await once(child, 'exit')
    if (code !== 0) throw new Error(`${editor} ended with ${code ?? 'a signal'}: nothing was changed`)
    return readFileSync(file, 'utf8')
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

type Style = 'bold' | 'dim' | 'red' | 'green' | 'yellow' | 'cyan'

/** Colours a text if colours are enabled. */
export function paint({ color }: Io, style: Style, text: string): string {
  return color ? styleText(style, text, { validateStream: false }) : text
}

/** Writes one line for people. */
export function line({ out }: Io, text: string = ''): void {
  out.write(`${text}\n`)
}

/** Writes the one JSON document of a command. */
export function json({ out }: Io, value: unknown): void {
  out.write(`${safeJson(value, 2)}\n`)
}
