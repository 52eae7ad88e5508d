import type { ServerName } from '../../test/support/servers.ts'
import { composeAnswers, imageVariable } from '../services/compose.ts'
import { NotToBeHad, type Obtained } from './obtained.ts'

/** An image of Docker, instead of the one that compose.yaml names. */
export function fromImage(service: ServerName, image: string): Obtained {
  if (!composeAnswers()) throw new NotToBeHad('Docker Compose does not answer')
  return { how: `Docker, \`${image}\``, env: { [imageVariable(service)]: image } }
}
