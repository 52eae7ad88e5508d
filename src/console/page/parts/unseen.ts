import { type ComponentChildren, Fragment, options } from 'preact'
import { visible } from '../state/visible.ts'

/** Shows unseen characters in every text of the page, wherever it comes from: no place can forget it. The values of fields stay as they are. */
export function showUnseen(): void {
  const before = options.vnode
  options.vnode = (vnode) => {
    const { type } = vnode
    const props: Record<string, ComponentChildren> = vnode.props
    if (typeof type === 'string' || type === Fragment) {
      for (const name of ['children', 'title', 'aria-label']) if (name in props) props[name] = shown(props[name])
    }
    before?.(vnode)
  }
}

function shown(children: ComponentChildren): ComponentChildren {
  if (typeof children === 'string') return visible(children)
  return Array.isArray(children) ? children.map(shown) : children
}
