import { existsSync, globSync } from 'node:fs'
import { findPrograms } from './programs.ts'
import type { Installable } from './service.ts'

const EXTENSIONS = ['amqp', 'pdo_pgsql', 'xml']

/** PHP and Symfony Messenger, whose messages hapax reads and writes. Tests start its worker themselves. */
export const symfony: Installable = {
  title: 'Symfony Messenger',
  debianPackages: [
    'php-cli',
    'php-amqp',
    'php-pgsql',
    'php-xml',
    'php-symfony-messenger',
    'php-symfony-event-dispatcher',
    'php-symfony-serializer',
    'php-symfony-property-access',
  ],
  find: () => {
    const programs = findPrograms(['php'], ['/usr/bin'])
    const isWhole =
      existsSync('/usr/share/php/Symfony/Component/Messenger/Worker.php') &&
      EXTENSIONS.every((name) => globSync(`/usr/lib/php/*/${name}.so`).length > 0)
    return isWhole ? programs && { from: programs.php } : undefined
  },
}
