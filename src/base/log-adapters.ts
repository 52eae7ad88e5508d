// Loggers that take their arguments in another order than pino are recognised and called in their own way.

import { Console } from 'node:console'
import { logLine } from './log-lines.ts'
import type { Logger } from './logger.ts'

/** The same logger, called as it wants to be. */
export function adapted(logger: Logger): Logger {
  if (isConsole(logger)) return lines((level, line) => logger[level](line))
  return isWinston(logger) ? sentenceFirst(logger) : logger
}

/** Also a console of the application's own. Not by its methods: many loggers have the same. */
function isConsole(logger: object): logger is Console {
  return logger === globalThis.console || logger instanceof Console
}

/** The console writes what it is given: one line for each call. */
function lines(write: (level: keyof Logger, line: string) => void): Logger {
  const at = (level: keyof Logger, isTerminal: () => boolean) => (fields: object, sentence: string) =>
    write(level, logLine(level, fields, sentence, isTerminal()))
  const [out, err] = [() => process.stdout.isTTY === true, () => process.stderr.isTTY === true]
  return { debug: at('debug', out), info: at('info', out), warn: at('warn', err), error: at('error', err) }
}

/** What tells a logger of winston, or a child of one, from others. */
const WINSTON = ['log', 'configure', 'isLevelEnabled', 'add', 'remove', 'clear'] as const

interface SentenceFirst {
  log(level: string, sentence: string, fields: object): unknown
}

function isWinston(logger: object): logger is SentenceFirst {
  return WINSTON.every((name) => name in logger && typeof Reflect.get(logger, name) === 'function')
}

/** Winston takes the sentence first, and the fields behind it. */
function sentenceFirst(logger: SentenceFirst): Logger {
  const at = (level: keyof Logger) => (fields: object, sentence: string) => void logger.log(level, sentence, fields)
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error') }
}
