import type { Finding, Store } from '../contracts/index.ts'

/** The findings of `doctor` on a database clock that went back: recorded steps, and one that no worker has noticed yet. */
export async function clockFindings(
  { clock, admin }: Pick<Store<never>, 'clock' | 'admin'>,
  now: Date,
): Promise<readonly Finding[]> {
  const aheadMs = await clock.aheadMs()
  const since = new Date(now.getTime() - LATELY_MS)
  const { rows } = await admin.audited({ action: 'recount', since }, undefined, 1)
  return [
    ...(aheadMs > TOLERANCE_MS ? [ahead(aheadMs)] : []),
    ...rows.map(({ at, note }): Finding => {
      return {
        check: 'clock steps',
        level: 'warning',
        message: `the database clock went back ${note ?? ''} shortly before ${at.toISOString()}`,
        advice: `Delays and leases were restarted at that time: each message waited at most for its requested delay once more. ${SYNCHRONISE}`,
      }
    }),
  ]
}

function ahead(aheadMs: number): Finding {
  return {
    check: 'clock steps',
    level: 'warning',
    message: `times in the tables lie ${(aheadMs / 1000).toFixed(1)} s ahead of the database clock: it went back`,
    advice: `Messages wait longer than requested until a worker notices: a running one within half a minute, otherwise the next one to start. ${SYNCHRONISE}`,
  }
}

const SYNCHRONISE =
  'Slew the clock instead of stepping it (NTP), and keep the clocks of standbys and of all cluster nodes synchronised.'
/** Clock skew between synchronised nodes is smaller. */
const TOLERANCE_MS = 1_000
const LATELY_MS = 7 * 86_400_000
