// What the tests use of better-sqlite3, which has no types of its own; the names are those of @types/better-sqlite3.
declare module 'better-sqlite3' {
  namespace Database {
    interface RunResult {
      changes: number
      lastInsertRowid: number | bigint
    }
    interface Statement<Params extends unknown[] = unknown[], Result = unknown> {
      database: Database
      source: string
      reader: boolean
      busy: boolean
      run(...params: Params): RunResult
      get(...params: Params): Result | undefined
      all(...params: Params): Result[]
      iterate(...params: Params): IterableIterator<Result>
      pluck(toggle?: boolean): this
      raw(toggle?: boolean): this
      bind(...params: Params): this
      safeIntegers(toggle?: boolean): this
    }
    interface Transaction<F extends (...args: never[]) => unknown> {
      (...params: Parameters<F>): ReturnType<F>
      default(...params: Parameters<F>): ReturnType<F>
      deferred(...params: Parameters<F>): ReturnType<F>
      immediate(...params: Parameters<F>): ReturnType<F>
      exclusive(...params: Parameters<F>): ReturnType<F>
    }
    interface Options {
      readonly?: boolean
      fileMustExist?: boolean
      timeout?: number
      verbose?: (message?: unknown, ...more: unknown[]) => void
      nativeBinding?: string
    }
    interface Database {
      memory: boolean
      readonly: boolean
      name: string
      open: boolean
      inTransaction: boolean
      prepare<Params extends unknown[] | object = unknown[], Result = unknown>(
        source: string,
      ): Params extends unknown[] ? Statement<Params, Result> : Statement<[Params], Result>
      transaction<F extends (...args: never[]) => unknown>(fn: F): Transaction<F>
      exec(source: string): this
      pragma(source: string, options?: { simple?: boolean }): unknown
      function(name: string, fn: (...params: never[]) => unknown): this
      close(): this
      defaultSafeIntegers(toggle?: boolean): this
      unsafeMode(unsafe?: boolean): this
    }
  }
  const Database: {
    new (path?: string, options?: Database.Options): Database.Database
    (path?: string, options?: Database.Options): Database.Database
  }
  export = Database
}
