import { fieldOf } from '../base/index.ts'

/** Drivers and ORMs wrap errors a few times. */
const MOST_CAUSES = 5

/** Whether the database denied this user the access. */
export function isDenied(error: unknown): boolean {
  let each = error
  for (let count = 0; count < MOST_CAUSES && each !== undefined; count++) {
    const code = fieldOf(each, 'code')
    if (typeof code === 'string' && DENIED.test(code)) return true
    if (fieldOf(each, 'errcode') === SQLITE_READONLY) return true
    each = fieldOf(each, 'cause')
  }
  return false
}

const DENIED = /^(42501|EACCES|EPERM|SQLITE_READONLY|ER_\w*ACCESS_DENIED)/
const SQLITE_READONLY = 8
