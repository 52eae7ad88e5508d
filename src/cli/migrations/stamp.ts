/** The time as most tools write it into names: 20260131235959, in UTC. */
export function stamp(at: Date): string {
  return at.toISOString().replaceAll(/\D/g, '').slice(0, 14)
}
