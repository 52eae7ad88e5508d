// Opens a network and waits to be killed.
import { openNetwork } from '../../support/clusters/network.ts'

const { hosts } = await openNetwork(1)
process.send?.(hosts[0]?.namespace)
