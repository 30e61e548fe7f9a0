/** Which part of the layout is on the screen: offsets in device pixels, and what zooming does to them. */

export interface View {
  /** Where the layout's origin is, from the left and top of the canvas. */
  x: number;
  y: number;
}

export interface Extent {
  width: number;
  height: number;
}

/** Content that fits is centred across and begins at the top; what does not can be moved as far as its edges. */
export function clamp(view: View, content: Extent, canvas: Extent): View {
  return {
    x: axis(view.x, content.width, canvas.width, Math.floor((canvas.width - content.width) / 2)),
    y: axis(view.y, content.height, canvas.height, 0),
  };
}

function axis(offset: number, content: number, canvas: number, atRest: number): number {
  return content <= canvas ? atRest : Math.round(Math.min(0, Math.max(canvas - content, offset)));
}

/** Whether there is anything beyond the edges. */
export function canMove(content: Extent, canvas: Extent): boolean {
  return content.width > canvas.width || content.height > canvas.height;
}

/** The view, moved just so far that the box is seen, with a margin. */
export function reveal(view: View, box: View & Extent, canvas: Extent, margin: number): View {
  return {
    x: revealAxis(view.x, box.x, box.width, canvas.width, margin),
    y: revealAxis(view.y, box.y, box.height, canvas.height, margin),
  };
}

function revealAxis(offset: number, from: number, size: number, canvas: number, margin: number): number {
  const start = from + offset;
  if (start < margin) {
    return offset + margin - start;
  }
  const end = start + size;
  return end > canvas - margin ? offset + canvas - margin - end : offset;
}
