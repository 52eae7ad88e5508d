import type { ServerName } from '../../test/support/servers.ts'

/** A server that tests use. To add one: a file of this shape, its entry in all.ts and servers.ts, its service in compose.yaml. */
export interface Service extends Startable {
  /** The name of the server for the tests, and of the service in compose.yaml. */
  readonly name: ServerName
  /** Where it can not be installed: compose.yaml has it, or the tests that need it say so and are skipped. */
  readonly otherwise: ('container' | 'skip')[]
  /** Run once when the server is ready, before tests share it. */
  prepareSharing?(url: string): Promise<void>
}

/** A program that can be installed here. */
export interface Installable {
  /** How people call it. */
  readonly title: string
  /** What apt installs. */
  readonly debianPackages: string[]
  /** Where its program is, or undefined when it is not installed. */
  find(): Pick<Installation, 'from'> | undefined
}

/** A server that can be started here. */
export interface Startable extends Installable {
  readonly name: string
  /** The URL of an instance that was started here, privately or by Docker Compose. */
  url(port: number, address?: string): string
  /** How to start a private instance from the programs on this machine, or undefined when they are not installed. */
  find(): Installation | undefined
  /** Connects once and returns what the server says that it is: its name and version. */
  ping(url: string): Promise<string>
}

export interface Installation {
  /** The path of the server's program. */
  readonly from: string
  /** The account to use when root starts it: these servers refuse to run as root, or should not. */
  readonly user: string
  launch(instance: Instance): Launch
}

/** Where an instance has its files, and where it listens. */
export interface Instance {
  readonly directory: string
  readonly port: number
  readonly address: string
}

/** Where instances listen, except those of a cluster whose nodes have networks of their own. */
export const LOOPBACK = '127.0.0.1'

/** How a keeper runs one instance. */
export interface Launch {
  /** Small files to write into the instance's directory, by name. */
  readonly files?: Record<string, string>
  /** Run one after the other before the server. */
  readonly prepare: Command[]
  /** Runs until it gets its stop signal; without it, what `prepare` started runs until `cleanup`. */
  readonly server?: { readonly command: Command; readonly stop: NodeJS.Signals }
  /** Run one after the other at the end. */
  readonly cleanup?: Command[]
}

export type Command = [program: string, ...args: string[]]
