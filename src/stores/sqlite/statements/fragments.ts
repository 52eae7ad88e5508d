// Parts that statements share: columns as the engine reads them, parameters, times.

import { REMEMBERED } from '../../../message/index.ts'
import { NOW } from './migrations.ts'

/** A time so many milliseconds from now. */
export const LATER: string = `cast(round(unixepoch('subsec') * 1000 + ?) as integer)`
/** Makes a row due so many milliseconds from now. Records the current time as well, in case the clock goes back. */
export const DUE_IN: string = `available_at = ${LATER}, set_at = ${NOW}`
/** Makes a row due. */
export const DUE_NOW: string = `available_at = ${NOW}, set_at = ${NOW}`
/** A line of a history: when, which attempt, and the entry, which is a parameter. */
export const LINE = (attempt: string): string => `${NOW} || ' ' || ${attempt} || ' ' || ?`
/** A history with one more line in front; once there are as many as are kept, without the last one: all that stands behind the last line break. */
export const HISTORY = (
  attempt: string,
): string => `${LINE(attempt)} || coalesce(char(10) || iif(failures < ${REMEMBERED}, history,
    rtrim(rtrim(history, replace(history, char(10), '')), char(10))), '')`
/** A UUID as its 16 bytes. */
export const UUID: string = `unhex(?, '-')`
/** The columns of a message. */
export const MESSAGE: string = 'message_key, source, id, type, key, attributes, data, fingerprint'
/** The numbers of a JSON array of texts. */
export const SEQS: string = '(select cast(value as integer) from json_each(?))'
/** What names a row: its number and its mark. */
export const NAME = (table: string): string => `${table}.seq || '-' || ${table}.mark`
/** What names a row: its number and its mark. */
export const SEQ: string = `seq || '-' || mark as seq`
/** A row by its name. */
export const ROW: string = 'seq = ? and mark = ?'
/** Rows by their names. That one has the mark of another one of the list does not happen: marks are random. */
export const ROWS: string = `seq in ${SEQS} and mark in ${SEQS}`
/** A whole row of the inbox. */
export const INBOX: string = `${SEQ}, consumer, ${MESSAGE}, ordered, attempts, lost, starts, crashes, lease_token, fence, followed`
/** A message as eight parameters. */
export const MESSAGE_VALUES: string = `${UUID}, ?, ?, ?, ?, ?, ?, unhex(?)`
/** The largest number of a row. */
export const MAX_SEQ = '9223372036854775807'
/** The columns of a message. */
export const COLUMNS = 'message_key, source, id, type, key, attributes, data, fingerprint'
/** The columns of a message of a row `m`, as they are read. */
export const ROW_MESSAGE = 'm.message_key, m.source, m.id, m.type, m.key, m.attributes, m.data, m.fingerprint'
