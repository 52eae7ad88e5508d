// Secrets and signatures. Every comparison takes the same time whether and where the texts differ.

import { createHmac, createSecretKey, type KeyObject, timingSafeEqual } from 'node:crypto'
import { HapaxError, noOthers, positiveInteger, spanMs } from '../../../base/index.ts'
import { TOLERANCE_MS } from './scheme.ts'

/** The secrets of a scheme: the current one, and during a rotation the one before it. All are tried. */
export type Secrets = string | readonly string[]

/** What every preset takes. */
export interface SchemeOptions {
  /** What the provider signs with. During a rotation: the new secret and the old one. */
  readonly secrets: Secrets
  /** For how long the provider sends an event again. @default what the provider documents */
  readonly resendsForMs?: number
}

/** What presets take whose providers sign the time. */
export interface TimedSchemeOptions extends SchemeOptions {
  /** How far the time of the signature may be from the time here, in both directions. @default 300_000 */
  readonly toleranceMs?: number
}

/** Whether secrets were given in place of an object with options. */
export function isSecrets(given: unknown): given is Secrets {
  return typeof given === 'string' || Array.isArray(given)
}

/** Refuses options that a preset does not have. */
export function onlyOptions(preset: string, given: object, others: readonly string[] = []): void {
  noOthers(`options of ${preset}`, given, ['secrets', 'resendsForMs', ...others])
}

/** For how long the provider sends again. */
export function resendsOption(given: number | undefined, documentedMs: number): number {
  return given === undefined ? documentedMs : spanMs('resendsForMs', given)
}

/** How far the time of a signature may be away. */
export function toleranceOption(given: number | undefined): number {
  return positiveInteger('toleranceMs', given, TOLERANCE_MS)
}

/** Fewer characters can be guessed from one signed request. */
const SHORTEST = 16

/** The keys of these secrets, whose characters are the key. Errors never show a secret. */
export function textKeys(secrets: Secrets): readonly KeyObject[] {
  return eachSecret('secrets', secrets, (name, secret) => {
    if (secret.length < SHORTEST) refuse(name, `at least ${SHORTEST} characters long`, secret)
    return createSecretKey(Buffer.from(secret))
  })
}

/** Makes a key of each. A space or a line break around a secret came from a file or a form, and is never part of it. */
export function eachSecret<Key>(
  option: string,
  secrets: Secrets | undefined,
  keyOf: (name: string, secret: string) => Key,
): readonly Key[] {
  const all: readonly unknown[] = Array.isArray(secrets) ? secrets : [secrets]
  if (all.length === 0) refuse(option, 'a text or a list of texts', secrets)
  return all.map((secret, index) => {
    const name = all.length === 1 ? option : `${option}[${index}]`
    if (typeof secret !== 'string' || secret === '') refuse(name, 'a non-empty text', secret)
    if (secret !== secret.trim()) refuse(name, 'without spaces or line breaks around it', secret)
    return keyOf(name, secret)
  })
}

/** The sentence form of all options, which must not show what came. */
export function refuse(name: string, what: string, got: unknown): never {
  const shown = typeof got === 'string' ? `a text of ${got.length} characters` : got === undefined ? got : typeof got
  throw new HapaxError('invalid-option', `expected ${name} to be ${what}, got ${shown}`, { fields: { option: name } })
}

/** Bytes of base64 in the one form that encoding them again gives: with padding, or without. Undefined for anything else. */
export function base64Bytes(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, 'base64')
  const encoded = bytes.toString('base64')
  return encoded === text || encoded.replace(/=+$/, '') === text ? bytes : undefined
}

export type Algorithm = 'sha1' | 'sha256' | 'sha384' | 'sha512'
export type Encoding = 'hex' | 'base64'

/** The signature of each key over these parts, one after the other. Texts of headers are bytes in Latin-1, as HTTP has them. */
export function hmacs(
  keys: readonly KeyObject[],
  parts: readonly (Uint8Array | string)[],
  { algorithm = 'sha256', encoding = 'hex' }: { algorithm?: Algorithm; encoding?: Encoding } = {},
): readonly string[] {
  return keys.map((key) => {
    const hmac = createHmac(algorithm, key)
    for (const part of parts) hmac.update(typeof part === 'string' ? Buffer.from(part, 'latin1') : part)
    return hmac.digest(encoding)
  })
}

/** Whether one of the texts that came is one of those expected. All are compared, whichever it is. */
export function anyMatches(given: readonly string[], wanted: readonly string[]): boolean {
  let found = false
  for (const each of given.slice(0, MOST_SIGNATURES)) {
    for (const one of wanted) if (isEqual(each, one)) found = true
  }
  return found
}

/** More signatures than any rotation has; a header may hold thousands, and each costs time. */
export const MOST_SIGNATURES = 16

/** The length of a signature is no secret. */
export function isEqual(given: string, wanted: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(wanted)]
  return a.length === b.length && timingSafeEqual(a, b)
}

/** Whether a time in whole seconds, written in digits only, is near enough to the time here. */
export function isNear(seconds: string, nowMs: number, toleranceMs: number, unitMs = 1_000): boolean {
  return /^\d{1,15}$/.test(seconds) && Math.abs(nowMs - Number(seconds) * unitMs) <= toleranceMs
}
