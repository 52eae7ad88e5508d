import { Logger as NestLogger } from '@nestjs/common'
import { type Logger, safeJson } from '../base/index.ts'

/** Logs through Nest, so that the application's logger and its levels apply. */
export function nestLogger(): Logger {
  const logger = new NestLogger('Hapax')
  const line = (fields: object, message: string): string => `${message} ${safeJson(fields)}`
  return {
    debug: (fields, message) => logger.debug(line(fields, message)),
    info: (fields, message) => logger.log(line(fields, message)),
    warn: (fields, message) => logger.warn(line(fields, message)),
    error: (fields, message) => logger.error(line(fields, message)),
  }
}
