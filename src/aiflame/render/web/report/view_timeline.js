// The view timeline.

export const view = {
  name: "timeline",
  title: "Timeline",
  key: "4",
  create() {
    const body = document.createElement("section");
    return { body, show() {} };
  },
};
