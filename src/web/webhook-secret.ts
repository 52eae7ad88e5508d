import { randomBytes } from 'node:crypto'

/** A new secret for the signatures of webhooks, as Standard Webhooks writes it. */
export function webhookSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`
}
