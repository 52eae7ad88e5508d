import type { BrokerHarness } from '../../testing/index.ts'

/** Whether a URL says that its connections are encrypted. */
export function encrypted(url: string): boolean {
  return /^(amqps|rediss|tls|wss):/i.test(url)
}

/** What cannot be done to encrypted connections: the certificate is not for a proxy in between. */
export const ENCRYPTED: BrokerHarness['cannot'] = {
  'cutting links': 'the connection is encrypted, and no proxy can be put in between',
  'freezing links': 'the connection is encrypted, and no proxy can be put in between',
}
