import { asError } from './errors.ts'

/** What there is of a socket. */
interface Socket {
  emit(event: string, ...args: unknown[]): boolean
  destroy(error?: Error): unknown
}

const sockets = new WeakSet<object>()

/**
 * A socket whose client library may throw at bytes that no server would send: that ends the link, and not the process. It is for
 * connections that hapax opens itself, because it also holds for whatever else is called while data is being read.
 */
export function contained<S extends object>(socket: S): S {
  if (sockets.has(socket)) return socket
  sockets.add(socket)
  const own = socket as unknown as Socket
  const emit = own.emit
  own.emit = function contain(this: Socket, event: string, ...args: unknown[]): boolean {
    if (event !== 'data' && event !== 'readable') return emit.call(this, event, ...args)
    try {
      return emit.call(this, event, ...args)
    } catch (error) {
      this.destroy(asError(error))
      return true
    }
  }
  return socket
}
