import type { Confirmation, Destination } from '../contracts/index.ts'
import type { OutgoingMessage } from '../message/index.ts'

/** Publishes, and returns a promise for the confirmation of each message. */
export function promised(
  destination: Pick<Destination, 'publish'>,
  messages: readonly OutgoingMessage[],
  signal: AbortSignal = new AbortController().signal,
): readonly Promise<Confirmation>[] {
  const settled = messages.map(() => Promise.withResolvers<Confirmation>())
  destination.publish(messages, signal, (index, confirmation) => settled[index]?.resolve(confirmation))
  return settled.map(({ promise }) => promise)
}

/** The `publish` of a destination that has an answer for each message. */
export function answering(
  answer: (message: OutgoingMessage) => Confirmation | Promise<Confirmation>,
): Destination['publish'] {
  return (messages, _, settle) => {
    for (const [index, message] of messages.entries())
      void Promise.resolve(answer(message)).then((sent) => settle(index, sent))
  }
}
