// `hapax/nestjs`: a module, decorators and a health indicator for NestJS 11 and 12.

export {
  type HapaxConsoleAsyncOptions,
  type HapaxConsoleExtras,
  HapaxConsoleModule,
  type HapaxConsoleOptions,
} from './console.ts'
export { type MethodMark, OnLeasedMessage, OnMessage, type OnMessageOptions, OnMessages } from './decorators.ts'
export { HapaxHealth, type HapaxHealthResult } from './health.ts'
export { Idempotent, IdempotentContext, type IdempotentOptions } from './idempotent.ts'
export { HapaxModule } from './module.ts'
export type { NestRequest } from './nest-request.ts'
export type {
  AnyHapax,
  HapaxConsumerOptions,
  HapaxEnhancers,
  HapaxModuleExtras,
  HapaxModuleOptions,
  HapaxModuleSettings,
  HapaxOptionsFactory,
  HapaxWorkerOptions,
} from './options.ts'
export { HAPAX_CONTEXT } from './pipeline.ts'
export { HapaxRunner } from './runner.ts'
export { type DeliverOptions, HapaxTesting, HapaxTestingModule, type HapaxTestingOptions } from './testing.ts'
export { getHapaxToken, getRunnerToken, HAPAX, InjectHapax } from './tokens.ts'
export { inTransactionHost, type NestTransactionHost } from './transaction-host.ts'
