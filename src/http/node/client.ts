import { EventEmitter } from 'node:events'
import type { NodeRequest, NodeResponse } from './messages.ts'

/** Whoever sent a request, for as long as the response is not finished. */
export class Client {
  /** Why the response was of no use: the reason of the signal, and the error of a body that ended too early. */
  readonly gone: Error = new DOMException(
    'The client closed the connection before the response was complete',
    'AbortError',
  )
  /** Kept for as long as this is: the signal of a request is aborted only while the request itself exists. */
  request: Request | undefined
  /** Leaves the rest of the request unread: nobody wants it any more. */
  discard: () => void = () => {}
  readonly #controller = new AbortController()

  constructor(req: NodeRequest, res: NodeResponse) {
    const carrier = req.stream ?? req.socket
    if (!(carrier instanceof EventEmitter)) return
    const closed = (): void => {
      if (!isServed(req, res)) this.#controller.abort(this.gone)
    }
    if ('destroyed' in carrier && carrier.destroyed) closed()
    const forget = whenClosed(carrier, closed)
    // A stream of HTTP/2 finishes when it is reset, too; it closes soon after.
    if (req.stream === undefined) res.once('finish', forget)
  }

  /** Aborts when the client goes away before the response is finished. */
  get signal(): AbortSignal {
    return this.#controller.signal
  }
}

function isServed({ stream }: NodeRequest, res: NodeResponse): boolean {
  return stream === undefined ? res.writableFinished : !stream.aborted && stream.rstCode === 0
}

/**
 * The socket is watched, because a response that waits behind another one on its connection does not hear of the end. Once for all of
 * them: a listener each would look like a leak.
 */
const watched = new WeakMap<EventEmitter, Set<() => void>>()

function whenClosed(carrier: EventEmitter, call: () => void): () => void {
  const calls = watched.get(carrier) ?? watch(carrier)
  calls.add(call)
  return () => calls.delete(call)
}

function watch(carrier: EventEmitter): Set<() => void> {
  const calls = new Set<() => void>()
  watched.set(carrier, calls)
  carrier.once('close', () => {
    for (const call of calls) call()
  })
  return calls
}
