/** A line of a comparison. */
export interface DiffLine {
  readonly mark: ' ' | '-' | '+'
  readonly text: string
}

const MOST_CELLS = 1_000_000

/** Compares two texts line by line. Where that would take too long, the middle is shown as removed and added. */
export function diff(old: string, changed: string): readonly DiffLine[] {
  const [before, after] = [old.split('\n'), changed.split('\n')]
  let start = 0
  while (start < before.length && start < after.length && before[start] === after[start]) start += 1
  let end = 0
  while (end < before.length - start && end < after.length - start && before.at(-1 - end) === after.at(-1 - end)) {
    end += 1
  }
  return [
    ...lines(' ', before.slice(0, start)),
    ...middle(before.slice(start, before.length - end), after.slice(start, after.length - end)),
    ...lines(' ', before.slice(before.length - end)),
  ]
}

/** Only what changes, with some lines around it; a number stands for so many lines that are the same. */
export function changes(all: readonly DiffLine[], around = 3): readonly (DiffLine | number)[] {
  const near = new Set<number>()
  for (const [index, { mark }] of all.entries()) {
    if (mark !== ' ') for (let each = index - around; each <= index + around; each += 1) near.add(each)
  }
  const found: (DiffLine | number)[] = []
  for (const [index, line] of all.entries()) {
    const last = found.at(-1)
    if (near.has(index)) found.push(line)
    else if (typeof last === 'number') found[found.length - 1] = last + 1
    else found.push(1)
  }
  return found
}

function lines(mark: DiffLine['mark'], texts: readonly string[]): DiffLine[] {
  return texts.map((text) => ({ mark, text }))
}

function middle(before: readonly string[], after: readonly string[]): DiffLine[] {
  if (before.length * after.length > MOST_CELLS) return [...lines('-', before), ...lines('+', after)]
  const common = longestCommon(before, after)
  const width = after.length + 1
  const found: DiffLine[] = []
  let [i, j] = [0, 0]
  while (i < before.length || j < after.length) {
    const [old, changed] = [before[i], after[j]]
    if (old !== undefined && old === changed) {
      found.push({ mark: ' ', text: old })
      i += 1
      j += 1
    } else if (
      old !== undefined &&
      (changed === undefined || at(common, (i + 1) * width + j) >= at(common, i * width + j + 1))
    ) {
      found.push({ mark: '-', text: old })
      i += 1
    } else if (changed !== undefined) {
      found.push({ mark: '+', text: changed })
      j += 1
    }
  }
  return found
}

/** For each pair of places: how many lines the rests have in common. */
function longestCommon(before: readonly string[], after: readonly string[]): Uint32Array {
  const width = after.length + 1
  const common = new Uint32Array((before.length + 1) * width)
  for (let i = before.length - 1; i >= 0; i -= 1) {
    for (let j = after.length - 1; j >= 0; j -= 1) {
      common[i * width + j] =
        before[i] === after[j]
          ? at(common, (i + 1) * width + j + 1) + 1
          : Math.max(at(common, (i + 1) * width + j), at(common, i * width + j + 1))
    }
  }
  return common
}

function at(common: Uint32Array, index: number): number {
  return common[index] ?? 0
}
