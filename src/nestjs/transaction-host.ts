import { expected, fieldOf } from '../base/index.ts'

/** The subset of a `TransactionHost` of `@nestjs-cls/transactional` that shows what it is. */
export interface NestTransactionHost {
  readonly tx: unknown
  isTransactionActive(): boolean
}

/**
 * The option `around` for applications with `@nestjs-cls/transactional`: methods with `@Transactional()`, and `transactionHost.tx`, find the
 * transaction of the handler that calls them. The adapter of the plugin has to be on the same ORM as the store.
 */
export function inTransactionHost(host: NestTransactionHost): <T>(tx: unknown, call: () => T) => T {
  if (!isOpen(host)) expected('host', 'a TransactionHost of @nestjs-cls/transactional', host)
  return (tx, call) =>
    host.cls.run({ ifNested: 'inherit' }, () => {
      host.setTxInstance(tx)
      return call()
    })
}

/** Its private parts: it has no public way to join an existing transaction. */
interface OpenHost {
  readonly cls: { run<T>(options: { ifNested: 'inherit' }, call: () => T): T }
  setTxInstance(tx: unknown): void
}

function isOpen(host: unknown): host is OpenHost {
  return (
    typeof fieldOf(fieldOf(host, 'cls'), 'run') === 'function' && typeof fieldOf(host, 'setTxInstance') === 'function'
  )
}
