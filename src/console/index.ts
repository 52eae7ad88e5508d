// `hapax/console`: a page for the people who run it, on any server that takes a `Request`.

import type { ConsoleHapax } from './hapax.ts'
import { type ConsoleOptions, hapaxOption, settingsOf } from './options.ts'
import { ConsoleServer } from './server.ts'

export type { Role } from './api.ts'
export type { ConsoleHapax } from './hapax.ts'
export type { ConsoleOptions, Person, ShownMessage } from './options.ts'

/** A console. */
export interface Console {
  /** Answers the requests of the page: mount it by `toNode`, `toExpress`, `toFastify`, or where handlers take a `Request`. */
  readonly handler: (request: Request) => Promise<Response>
  /** It answers nothing from now on, and leaves operations to others. The hapax stays open: close it afterwards. */
  close(): Promise<void>
}

/**
 * Creates a console. It has no login of its own: `authorize` says of each request who sends it. Nothing is opened before the first
 * request, and nothing but the public interface of this hapax is used.
 */
export function createConsole(hapax: ConsoleHapax, options: ConsoleOptions): Console {
  const server = new ConsoleServer(hapaxOption(hapax), settingsOf(options))
  let closed = false
  return {
    handler: (request) =>
      closed ? Promise.resolve(new Response('The console is closed.\n', { status: 503 })) : server.answer(request),
    close: () => {
      closed = true
      return server.close()
    },
  }
}
