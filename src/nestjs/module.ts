import {
  ConfigurableModuleBuilder,
  type ConfigurableModuleCls,
  type ConfigurableModuleHost,
  type DynamicModule,
  Module,
  type Provider,
} from '@nestjs/common'
import { DiscoveryModule, DiscoveryService, ExternalContextCreator, MetadataScanner } from '@nestjs/core'
import { HapaxHealth } from './health.ts'
import { type AnyHapax, type HapaxModuleExtras, type HapaxModuleOptions, hapaxOf } from './options.ts'
import { HapaxRunner } from './runner.ts'
import { DEFAULT_NAME, getHapaxToken, getRunnerToken } from './tokens.ts'

const host: ConfigurableModuleHost<HapaxModuleOptions, 'forRoot', 'createHapaxOptions', HapaxModuleExtras> =
  new ConfigurableModuleBuilder<HapaxModuleOptions>({ moduleName: 'Hapax' })
    .setClassMethodName('forRoot')
    .setFactoryMethodName('createHapaxOptions')
    .setExtras<HapaxModuleExtras>({ name: DEFAULT_NAME, isGlobal: true }, completed)
    .build()

const Base: ConfigurableModuleCls<HapaxModuleOptions, 'forRoot', 'createHapaxOptions', HapaxModuleExtras> =
  host.ConfigurableModuleClass

/** A hapax in a Nest application: `HapaxModule.forRoot({ store, source, … })` or `forRootAsync({ useFactory, inject, imports })`. */
export class HapaxModule extends Base {}
Module({})(HapaxModule)

/** Adds what the options lead to. Tokens have the name in them, so that several modules may be global. */
function completed(definition: DynamicModule, { name, isGlobal }: HapaxModuleExtras): DynamicModule {
  const [hapax, runner] = [getHapaxToken(name), getRunnerToken(name)]
  const options = host.MODULE_OPTIONS_TOKEN
  const provided: Provider[] = [
    { provide: hapax, useFactory: hapaxOf, inject: [options] },
    {
      provide: runner,
      inject: [hapax, options, DiscoveryService, MetadataScanner, ExternalContextCreator],
      useFactory: (
        made: AnyHapax,
        given: HapaxModuleOptions,
        discovery: DiscoveryService,
        scanner: MetadataScanner,
        external: ExternalContextCreator,
      ) => new HapaxRunner(name ?? DEFAULT_NAME, made, given, { discovery, scanner, external }),
    },
  ]
  const unnamed: Provider[] = [{ provide: HapaxRunner, useExisting: runner }, HapaxHealth]
  const isDefault = (name ?? DEFAULT_NAME) === DEFAULT_NAME
  return {
    ...definition,
    global: isGlobal ?? true,
    imports: [...(definition.imports ?? []), DiscoveryModule],
    providers: [...(definition.providers ?? []), ...provided, ...(isDefault ? unnamed : [])],
    exports: [hapax, runner, ...(isDefault ? [HapaxRunner, HapaxHealth] : [])],
  }
}
