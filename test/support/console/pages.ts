import type { World } from './world.ts'

/** A page, and what a filled shop shows there. */
export interface ShownPage {
  readonly title: string
  readonly path: (world: World) => Promise<string>
  readonly shows: readonly (string | RegExp)[]
}

const at = (path: string) => async () => path

/** Which message failed last differs from run to run, so the one meant is named by its error. */
async function someDeclined({ hapax }: World): Promise<{ readonly seq: string; readonly id: string }> {
  const failed = await hapax.failed.list({ consumer: 'billing' })
  const found = failed.find(({ error }) => error.message === 'the card was declined')
  if (found === undefined) throw new Error('expected a failed message')
  return { seq: found.seq, id: found.message.id }
}

/** Every page. */
export const PAGES: readonly ShownPage[] = [
  { title: 'Overview', path: at(''), shows: ['billing', 'emails', 'What failed'] },
  { title: 'Consumers', path: at('consumers'), shows: ['billing', 'in order'] },
  { title: 'Relays', path: at('relays'), shows: ['default'] },
  { title: 'Failed', path: at('failed'), shows: ['the card was declined', 'the order has no customer'] },
  { title: 'Failed messages', path: at('failed/list?scope=billing'), shows: ['the card was declined', 'order.placed'] },
  {
    title: 'Failed message',
    path: async (world) => `failed/${(await someDeclined(world)).seq}`,
    shows: ['the card was declined', 'Payload', 'customer', 'Failures'],
  },
  { title: 'Messages', path: at('messages'), shows: ['order.placed', 'retrying'] },
  {
    title: 'Message',
    path: async (world) => `message?id=${encodeURIComponent((await someDeclined(world)).id)}`,
    shows: ['What happened', 'It failed for good.'],
  },
  { title: 'Held keys', path: at('keys'), shows: ['customer-1'] },
  { title: 'Unknown effects', path: at('effects'), shows: ['charge', 'unknown'] },
  { title: 'Operations', path: at('operations'), shows: [/operation/i] },
  { title: 'Retries', path: at('retries'), shows: ['order.placed', 'retrying'] },
  { title: 'Workers', path: at('workers'), shows: ['alive', 'billing'] },
  { title: 'Audit log', path: at('audit'), shows: [] },
  { title: 'Health', path: at('health'), shows: ['npx hapax doctor'] },
]
