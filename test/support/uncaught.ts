import { onTestFinished } from 'vitest'

/** The uncaught exceptions and rejections until the end of this test: each of them would end a user's process. */
export function uncaughtErrors(): readonly unknown[] {
  const uncaught: unknown[] = []
  const hear = (error: unknown): void => void uncaught.push(error)
  const events = ['uncaughtExceptionMonitor', 'unhandledRejection'] as const
  for (const event of events) process.on(event, hear)
  onTestFinished(() => {
    for (const event of events) process.off(event, hear)
  })
  return uncaught
}
