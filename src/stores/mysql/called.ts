/** Where a statement was sent from, as a stack that is only read for an error. */
export interface Called {
  readonly stack?: string
}

/** The nearest frames, which are the handler's: a whole trace costs as much as sending the statement does. */
const FRAMES = 4

const adjustable = Object.getOwnPropertyDescriptor(Error, 'stackTraceLimit')?.writable === true

/** Who has called this function. */
export function calledBy(called: (...args: never[]) => unknown): Called {
  const limit = Error.stackTraceLimit
  if (adjustable) Error.stackTraceLimit = Math.min(limit, FRAMES)
  const from: Called = {}
  Error.captureStackTrace(from, called)
  if (adjustable) Error.stackTraceLimit = limit
  return from
}

/** An error of the driver, which was made when the answer arrived, with the stack of where its statement was sent from. */
export function tracedTo({ stack = '' }: Called, error: unknown): unknown {
  const frames = stack.indexOf('\n')
  if (error instanceof Error && frames >= 0) error.stack = `${error.name}: ${error.message}${stack.slice(frames)}`
  return error
}
