import { claimPort } from '../../src/conformance/claimed-port.ts'

/** A port that is nobody else's as long as this process lives. */
export async function freePort(): Promise<number> {
  return (await claimPort()).port
}
