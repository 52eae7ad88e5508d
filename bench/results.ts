import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Machine } from './machine.ts'

/** One line of the report. Figures are medians. */
export interface Line {
  /** Of the table that it belongs to. */
  readonly title: string
  /** What was compared, as `ours / theirs`. */
  readonly name: string
  readonly unit: '/s' | 'ms' | 's' | 'bytes' | 'MiB' | ''
  readonly hapax: number
  readonly other?: number
  /** Hapax to the other. */
  readonly ratio?: number
  readonly aim?: Aim
  /** What is possible to the other: the bare loop with the round trips of hapax. */
  readonly floor?: number
  readonly rounds?: number
  readonly note?: string
}

/** What is aimed at: a bound of the ratio, or of the figure of hapax. */
interface Aim {
  readonly of: 'ratio' | 'hapax'
  readonly least?: number
  readonly most?: number
}

/** What a part has measured, and when. */
export interface PartResult {
  readonly part: string
  readonly date: string
  readonly commit: string
  readonly quick: boolean
  readonly seconds: number
  readonly lines: readonly Line[]
}

export interface Results {
  readonly machine: Machine
  readonly parts: readonly PartResult[]
}

const FILE = join(import.meta.dirname, 'results.json')

/** The results that are checked in. */
export function readResults(): Results | undefined {
  return existsSync(FILE) ? JSON.parse(readFileSync(FILE, 'utf8')) : undefined
}

export function writeResults(results: Results, file: string = FILE): void {
  writeFileSync(file, `${JSON.stringify(rounded(results), null, 2)}\n`)
}

/** New results in the place of the old ones of the same parts, if those are from the same machine. */
export function mergeResults(old: Results | undefined, { machine, parts }: Results, order: readonly string[]): Results {
  const same = old?.machine.cpu === machine.cpu && old.machine.cores === machine.cores
  const kept = same ? old.parts.filter(({ part }) => !parts.some((each) => each.part === part)) : []
  const all = [...kept, ...parts].filter(({ part }) => order.includes(part))
  const servers = kept.length === 0 ? machine.servers : withOthers(machine.servers, old?.machine.servers ?? [])
  return { machine: { ...machine, servers }, parts: all.sort((a, b) => order.indexOf(a.part) - order.indexOf(b.part)) }
}

/** Servers that the results that stay were measured on; of the same server, the newest version counts. */
function withOthers(servers: readonly string[], old: readonly string[]): readonly string[] {
  const kind = (server: string): string | undefined => server.split(' ')[0]
  return [...servers, ...old.filter((each) => !servers.some((server) => kind(server) === kind(each)))]
}

/** Four digits are more than the figures are good for. */
function rounded<T>(value: T): T {
  return JSON.parse(
    JSON.stringify(value, (_, each) =>
      typeof each === 'number' && !Number.isInteger(each) ? Number(each.toPrecision(4)) : each,
    ),
  )
}

export function metAim({ aim, ratio, hapax }: Line): boolean {
  const value = aim?.of === 'hapax' ? hapax : (ratio ?? Number.NaN)
  return value >= (aim?.least ?? -Infinity) && value <= (aim?.most ?? Infinity)
}

export function aimText({ aim, unit }: Line): string {
  if (aim === undefined) return ''
  const [sign, bound] = aim.least === undefined ? ['≤', aim.most ?? 0] : ['≥', aim.least]
  return `${sign} ${aim.of === 'hapax' ? figureText(bound, unit) : bound}`
}

/** A rate without a fraction; anything small with one. */
export function figureText(value: number, unit: Line['unit']): string {
  const text = value >= 100 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)))
  return unit === '/s' ? `${text}/s` : `${text} ${unit}`.trimEnd()
}
