import { installedByApt } from './apt.ts'
import { fromArchive } from './archive.ts'
import { given } from './given.ts'
import { fromImage } from './image.ts'
import { fromMaven } from './kafka.ts'
import { fromNpm } from './npm.ts'
import { NotToBeHad, type Obtained } from './obtained.ts'
import type { ServerVersion, Way } from './versions.ts'

/** The first way that leads to a version; where none does, the reason of each. */
export async function obtain(version: ServerVersion): Promise<Obtained> {
  const named = given(version.name, version.service)
  if (named !== undefined) return named
  const reasons: string[] = []
  for (const way of version.ways) {
    try {
      return await by(way, version)
    } catch (error) {
      if (!(error instanceof NotToBeHad)) throw error
      reasons.push(error.message)
    }
  }
  throw new NotToBeHad(reasons.join('; '))
}

async function by(way: Way, { name, service, says }: ServerVersion): Promise<Obtained> {
  if ('apt' in way) return installedByApt(way.apt, says.slice(says.lastIndexOf(' ') + 1))
  if ('npm' in way) return fromNpm(way.npm)
  if ('archive' in way) return fromArchive(name, way.archive)
  if ('maven' in way) return fromMaven()
  return fromImage(service, way.image)
}
