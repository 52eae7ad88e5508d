import { onTestFinished } from 'vitest'

/** What nobody catches until the end of this test, exceptions and rejections: each of them would end a user's process. */
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
